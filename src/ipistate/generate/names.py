"""Tables of invented people and companies; every combination is made up."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST: Final = _words(
    """
    Adaeze Agnes Aino Aksel Alba Aldo Alina Amara Amina Anders Anika Anselm Anton Arda
    Ariadne Arvid Asha Astrid Aurel Ayla Basil Beatriz Benedikt Birgit Bjarne Bogdan
    Brigid Bruno Calista Camille Carmen Cedric Celeste Chiara Cillian Clara Corin Dagny
    Damir Daria Delia Denis Dimitra Dorte Edda Edgar Eleni Elias Elif Elin Eloise Emeka
    Emil Enzo Erika Esme Eszter Etienne Farah Felix Fenna Fergus Fiona Florin Freya Gaia
    Georg Gita Greta Gustav Hadiya Halina Hamza Hanna Haruki Hedda Helmi Henrik Hugo Ida
    Ilaria Ilya Imani Ines Ingrid Iker Isla Ismail Ivana Jaana Jakub Janek Jasmin Javier
    Jelena Joana Jonas Jorun Jovan Julian Kaia Kalle Kamala Karin Kasimir Katya Keanu
    Kelechi Kerstin Kofi Kwame Laila Lars Laszlo Leila Lena Leon Leonor Linnea Lorcan
    Louisa Luca Lucia Ludvik Maeve Magnus Malin Manuela Marek Margit Marisol Marta Mateo
    Matilda Mehmet Mei Milan Milena Mira Miriam Moira Nadia Naoko Narges Nadim Nia Niamh
    Niko Nils Nina Noor Nora Odette Olga Olive Omar Orla Oskar Otto Paloma Pavel Pelle
    Petra Philippa Quentin Rafael Ragna Rania Ravi Renata Rhea Rina Roald Rosa Ruben Ruth
    Sabine Sadia Salma Samir Sanna Selma Sibyl Sigrid Silas Simone Soren Stefan Stella
    Sunniva Svea Tadeusz Tamara Tariq Tessa Thea Theo Tilda Tobias Tomas Torben Uma Ursula
    Valentin Vera Viggo Viktor Wanda Wiebke Xenia Yara Yasmin Yusuf Zahra Zeno Zofia
    """
)

LAST: Final = _words(
    """
    Abernathy Achterberg Adeyemi Aldana Almqvist Amsel Andresen Arbogast Aslan Auclair
    Baptiste Barlow Bautista Beaumont Belmonte Bergstrom Birkeland Blackwood Bonheur
    Borgen Brandvold Brightwell Brzezina Calloway Castellanos Cavendish Chaudhary Claes
    Corrigan Coulthard Czerny Dahlgren Dalgaard Darrow Delacroix Demir Devereux Dimitrov
    Dorn Drummond Dufresne Eastwood Edelmann Ekholm Ellingsen Erdogan Esposito Fairbairn
    Falkenberg Farrokh Ferreira Fitzwarren Fjeldstad Fontaine Forsythe Fujimori Gallardo
    Garrick Gellert Georgiou Gilchrist Goncalves Grabowski Greenhalgh Gyllenborg
    Haldorsen Hargreave Hartwig Hasegawa Hatherley Haugland Hendriksen Herschel Hollander
    Holmgaard Horvath Huxtable Ibarra Idowu Ilves Ivarsson Jablonski Jankovic Jareth
    Jorgensen Kaczmarek Kallio Karlsen Kavanagh Kessler Kimathi Kirkwood Kleinhans
    Kobayakawa Kontos Korhonen Kowalczyk Krastev Kuusisto Lachance Lagerfeldt Lampard
    Langridge Larkspur Lehtinen Lindqvist Lockhart Lombardi Lowenthal Lundeby Lysander
    Maclaren Madaki Mahler Malinowski Marchetti Marlowe Matsuda Mbeki Mendelin Merriweather
    Mikkelsen Montague Moreau Mulvaney Nakagawa Narayanan Neumayer Nilsen Nkemelu Norrington
    Novak Nwosu Oakhurst Odelberg Okonjo Olafsson Onwudiwe Ostrowski Ottesen Palmgren
    Papadakis Pascoe Pemberton Pereira Petrosyan Pinheiro Polanski Prendergast Quintero
    Radcliffe Rasmussen Ravenscroft Redfearn Renner Rinaldi Rosendahl Rothmann Rutkowska
    Saarinen Salcedo Sandoval Santangelo Schellenberg Seabright Selander Sharifi Silvestri
    Sinclair Skarsgard Solberg Sorokin Stavrou Steinholt Sternberg Stormont Sundstrom
    Szabo Takahara Tennant Thackeray Thorvald Tikkanen Torvik Traore Trevelyan Tremaine
    Ueda Ulvestad Urquhart Valdivia Vandermeer Vasquez Venkat Vestergaard Villanueva
    Virtanen Volkova Wadsworth Wakefield Waldron Weidmann Westerholm Whitcombe Winterbourne
    Wolanski Yaman Yamashiro Yardley Zabala Zapata Zelenka Zimmer
    """
)

PLACES: Final = _words(
    """
    Harbour Northgate Calder Linden Meridian Alder Copper Saltmarsh Quay Orchard Beacon
    Willow Larch Granite Juniper Cedar Kestrel Heron Falcon Otter Amber Cobalt Ivory Slate
    Birch Maple Rowan Hazel Thistle Clover Summit Ridge Valley Harrow Ashford Elmwood
    Fairwater Glenrock Highmoor Kingsbrook Lakeshore Millrace Oakridge Pinecrest Queensway
    Riverbend Stonegate Thornfield Underhill Westmarch Windmere Yarrow Brightsea Coldbrook
    Driftwood Eastvale Foxglove Goldcrest Hollybank Ironbridge
    """
)

SECOND: Final = _words(
    """
    Lane Finch Point Gate Row Bridge Park Field Hill Court Bay Cross Wharf Green Mill Brook
    Square Tower Grove Garth
    """
)

TRADES: Final = _words(
    """
    Diagnostics Partners Services Compliance Logistics Analytics Holdings Systems Trading
    Records Archive Consulting Insurance Freight Support Labs Advisory Payments Recovery
    Clearing
    """
)

DESKS: Final = _words(
    """
    intake records verification audit compliance desk archive registry support billing
    reconciliation review transfer onboarding clearing operations service quality returns
    escalation
    """
)

STREETS: Final = _words(
    """
    Quay Orchard Chapel Station Mill Harbour Castle Garden School Bridge Church Market
    Meadow Foundry Tanner Cooper Weaver Lantern Juniper Saddler
    """
)

TOWNS: Final = _words(
    """
    Ellerby Port-Maren Westhaven Brackwater Sundholm Lower-Alton Vintry Kelmouth Hartsea
    Osterby Tarnbridge Milford-Vale Grenholm Ashcombe Norvik Saltburgh
    """
)

TOP_LEVEL: Final = ("example", "test", "invalid")
"""Reserved by RFC 2606 and RFC 6761; mail to them reaches no one."""

PRIVATE: Final = ("example.com", "example.org", "example.net")
